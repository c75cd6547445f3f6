"""Campaigns that try to break the product: mutated inputs, kills, faults, races, hostile names.

Each module has ``ATTEMPTS`` (how many a full campaign makes) and ``campaign(attempts, seed, folder)``, which returns
:class:`tests.campaigns.counts.Counts`. A test beside it makes a few attempts in ``make test``; ``make campaign`` makes all.
"""

"""Campaigns that try to break the product: mutated inputs, kills, faults, races, hostile names.

Each module has ``ATTEMPTS`` (how many a full campaign makes) and ``campaign(attempts, seed, folder)``, which returns
:class:`tests.campaigns.counts.Counts`. :mod:`tests.campaigns.apart` runs it in a process of its own, with the environment variables that
``variables(folder)`` asks for. Tests beside it make a few attempts in ``make test-all``; ``make campaign`` makes all.
"""

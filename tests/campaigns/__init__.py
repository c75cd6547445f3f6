"""Campaigns that try to break the product: mutated inputs, kills and full disks, fresh examples of property tests.

Each module has ``ATTEMPTS`` (how many a full campaign makes) and ``campaign(attempts, seed, folder)``, which returns
:class:`tests.campaigns.counts.Counts`. :mod:`tests.campaigns.apart` runs it in a process of its own. Tests beside it make a few attempts in
``make test-all``; ``make campaign`` makes all.
"""

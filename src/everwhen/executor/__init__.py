"""Executors: workers that run uploaded programs, for fleets that have none of their own.

What every executor does is here: claim, download, tell what came of it. How one attempt is executed is a method
behind one small protocol (`protocol.Method`): in a process of this machine (`process/`), or elsewhere. Nothing of the
server is imported here.
"""

"""The same work on many machines: a round's jobs over the actors of a Ray cluster, bit for bit as in process.

`engine` is what a federation sees, `roster` the actors and what becomes of them,
`crew` how they are given work, `worker` what an actor does,
`parcels` what travels, `cluster` how Ray is found or started. Ray is imported where it is used.
"""

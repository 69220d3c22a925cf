"""The other workers and the other proxies, and who is connected where.

A process has a link (`peer_link`) to each other process of its database: to the other workers of its proxy over Unix
sockets (`worker_links`), to other proxies over TCP, where both prove who they are (`mesh`, `peer_handshake`). All
links (`peer_links`) carry the same frames (`messages`). `peers` is what the rest of the proxy uses: it reports commits,
asks questions (`questions`) that the others answer (`answers`), and ends connections (`registry`), wherever they are.
The `supervisor` starts, watches and ends the workers of one proxy, and sees no message.

Every message here may be lost: where a report does not arrive, the safety scan finds what was committed.
"""

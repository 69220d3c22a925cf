"""The other workers and the other proxies, and who is connected where.

Workers of one proxy communicate through their supervisor (`supervisor`, `hub`, `bus`); proxies of one database over TCP
(`mesh`, `peer_link`, `peer_login`). Both carry the frames of `messages`. `peers` is what the rest of the proxy uses: it
reports commits, asks questions (`questions`) and ends connections (`registry`), wherever they are.

Every message here may be lost: where a report does not arrive, the safety scan finds what was committed.
"""

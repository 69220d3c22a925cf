"""The other workers and the other proxies, and who is connected where.

Workers of one proxy talk through their supervisor (`supervisor`, `hub`, `bus`); proxies of one database talk over TCP
(`mesh`, `peer_link`, `peer_login`). Both carry the frames of `messages`. `peers` is what the rest of the proxy uses: it
reports commits, asks questions (`questions`) and ends connections (`registry`), wherever they are.

Everything said here may be lost: receivers of a report that did not come find the messages by the safety scan.
"""

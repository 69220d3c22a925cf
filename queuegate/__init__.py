"""queuegate as it is installed: one name in an environment, and the server's packages below it.

The packages proxy, rewriter and engine have names that others use, too. In a wheel they lie in `queuegate/_server`,
which is on the path of the server's own process only (`queuegate.__main__`). In a checkout they lie beside this folder.
"""

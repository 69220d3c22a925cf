"""How the tables came to be; the second step changes what the first has made."""

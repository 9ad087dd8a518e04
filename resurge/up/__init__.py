"""`resurge up`: the whole product on one machine, and the account that shows it kept its promise."""

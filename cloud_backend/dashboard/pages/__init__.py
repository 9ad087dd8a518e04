"""The pages a person opens: one module each, all over one site."""

"""How right the execution models are, against published and recorded measurements."""

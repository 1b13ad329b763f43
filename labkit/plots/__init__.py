"""What a notebook shows: figures with their text and their table. No arithmetic of their own."""

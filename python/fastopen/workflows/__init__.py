"""A run, a reproduction or a validation from beginning to end."""

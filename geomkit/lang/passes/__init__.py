"""What the compiler finds out about a program, and what it simplifies."""

"""Forward and adjoint as one declaration."""

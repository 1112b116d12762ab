"""From images to scenes: losses, optimisers, and the fit that puts them together."""

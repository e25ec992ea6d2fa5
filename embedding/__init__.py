"""Text to vectors: by surface, by a small model that ships with the product, or by a service. See DESIGN.md."""

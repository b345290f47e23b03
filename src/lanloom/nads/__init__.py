"""NADs, whoever makes them: who refers to them, who uses them, and how one is guarded until nobody does."""

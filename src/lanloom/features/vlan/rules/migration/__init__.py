"""Plans that lead from Harvester's network controller to Lanloom and back."""

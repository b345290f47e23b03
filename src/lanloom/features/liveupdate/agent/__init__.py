"""The node's side of live update: finds the port of a NIC, moves it, announces it, and says where it is."""

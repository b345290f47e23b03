"""Address management: networks with many subnets and pools, NICs with many addresses."""

"""VLAN networks: VLAN sub-interfaces with addresses on the nodes, from annotations on NetworkAttachmentDefinitions."""

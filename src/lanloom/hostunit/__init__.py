"""The host's reload unit: systemd tells NetworkManager of changed profiles also while no agent runs.

The agent does the same over D-Bus as long as it lives. The unit is for what it can't do: profiles that come from a
backup or another hand while it is away, and hosts on which it may write files and nothing else.
"""

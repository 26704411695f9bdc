"""The process of a proxy, its folder, and that of `sokovan up`."""

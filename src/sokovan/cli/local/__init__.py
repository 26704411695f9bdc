"""Commands that run parts of Sokovan on this machine, through the entry points."""

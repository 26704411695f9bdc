"""The manager's end of links that agents open, as an AgentGateway."""

"""Operation: what the people who run a party look at, and what tells them that something is off."""

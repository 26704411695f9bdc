"""The agent of one machine: it runs what managers ask for, and says what runs."""

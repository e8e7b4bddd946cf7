"""What a game is: what the arms pay (`problem`), and who sees what, when (`feedback`)."""

"""The model: reward distributions (`problem`) and the observations a policy gets (`feedback`)."""

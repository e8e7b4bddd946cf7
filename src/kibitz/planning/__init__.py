"""What looks are worth: predictions, sizes, and the plan made of them."""

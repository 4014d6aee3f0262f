"""What files declare a tenant to have: what is there in that form, and what would have to change."""

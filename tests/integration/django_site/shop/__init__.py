"""An application with products, orders and their lines."""

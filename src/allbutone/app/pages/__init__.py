"""The pages of the app: each turns an address into answers. Only the server knows them."""

"""fastopen: what TCP Fast Open does to page load time, measured on the real Linux TCP stack."""

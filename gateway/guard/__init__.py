"""Who is asking. Keys and limits come here; for now it tells tenants apart."""

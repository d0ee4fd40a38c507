-- What the program needs once the tables are there. `mintage` stands for the user it connects as.
GRANT SELECT, UPDATE ON mintage_schema TO mintage;
GRANT SELECT, INSERT, UPDATE ON mintage_pool, mintage_worker, mintage_sequence TO mintage;
GRANT SELECT, INSERT, UPDATE, DELETE ON mintage_grant, mintage_range, mintage_range_key TO mintage;
GRANT SELECT, INSERT, UPDATE ON mintage_format TO mintage;
GRANT SELECT, INSERT, UPDATE, DELETE ON mintage_token TO mintage;

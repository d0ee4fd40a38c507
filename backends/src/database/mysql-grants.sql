-- What the program needs once the tables are there, given inside their database. `mintage` stands for the user it connects as.
GRANT SELECT, UPDATE ON mintage_schema TO mintage;
GRANT SELECT, INSERT, UPDATE ON mintage_pool TO mintage;
GRANT SELECT, INSERT, UPDATE ON mintage_worker TO mintage;
GRANT SELECT, INSERT, UPDATE ON mintage_sequence TO mintage;
GRANT SELECT, INSERT, UPDATE, DELETE ON mintage_grant TO mintage;
GRANT SELECT, INSERT, UPDATE, DELETE ON mintage_range TO mintage;
GRANT SELECT, INSERT, UPDATE, DELETE ON mintage_range_key TO mintage;
GRANT SELECT, INSERT, UPDATE ON mintage_format TO mintage;
GRANT SELECT, INSERT, UPDATE, DELETE ON mintage_token TO mintage;


-- The texts that pictures name by their numbers. Each is longer than all else that is kept of a picture, and there are few.
CREATE TABLE settings (
    id   INTEGER NOT NULL PRIMARY KEY,
    text TEXT    NOT NULL UNIQUE
) STRICT;
INSERT INTO settings (text) SELECT DISTINCT settings FROM picture;
UPDATE picture SET settings = (SELECT id FROM settings WHERE text = picture.settings);

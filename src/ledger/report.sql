-- What a report reads, however many pictures there are. The index has all that the last hour's rate is made of.
CREATE INDEX picture_by_end ON picture (state, finished, pixels);

-- The sums over all pictures in a state. Triggers keep them, so that whoever changes a picture changes them with it.
CREATE TABLE total (
    state     TEXT    NOT NULL PRIMARY KEY,
    pictures  INTEGER NOT NULL,
    bytes_out INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO total SELECT state, count(*), coalesce(sum(bytes_out), 0) FROM picture GROUP BY state;

CREATE TRIGGER picture_comes AFTER INSERT ON picture BEGIN
    INSERT INTO total VALUES (new.state, 1, coalesce(new.bytes_out, 0))
        ON CONFLICT DO UPDATE SET pictures = pictures + 1, bytes_out = bytes_out + excluded.bytes_out;
END;
CREATE TRIGGER picture_goes AFTER DELETE ON picture BEGIN
    UPDATE total SET pictures = pictures - 1, bytes_out = bytes_out - coalesce(old.bytes_out, 0)
        WHERE state = old.state;
END;
CREATE TRIGGER picture_changes AFTER UPDATE OF state, bytes_out ON picture BEGIN
    UPDATE total SET pictures = pictures - 1, bytes_out = bytes_out - coalesce(old.bytes_out, 0)
        WHERE state = old.state;
    INSERT INTO total VALUES (new.state, 1, coalesce(new.bytes_out, 0))
        ON CONFLICT DO UPDATE SET pictures = pictures + 1, bytes_out = bytes_out + excluded.bytes_out;
END;

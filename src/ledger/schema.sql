-- Times are nanoseconds since 1970. Paths are bytes, as the system has them.
CREATE TABLE picture (
    input           BLOB    NOT NULL PRIMARY KEY,
    size            INTEGER NOT NULL,
    mtime           INTEGER NOT NULL,
    inode           INTEGER NOT NULL,
    -- the number of a row of the table of this name
    settings        TEXT    NOT NULL,
    output          BLOB    NOT NULL,
    -- 'running', 'done', 'skipped', 'failed', or 'retry': failed for a cause that can pass
    state           TEXT    NOT NULL,
    started         INTEGER NOT NULL,
    finished        INTEGER,
    -- what stood at the output's place when the picture was begun
    before_inode    INTEGER,
    before_mtime    INTEGER,
    device          TEXT,
    pixels          INTEGER,
    bytes_out       INTEGER,
    reason          TEXT,
    -- when the service tries a 'retry' again
    again           INTEGER,
    -- how often in a row it was begun and did not end
    starts          INTEGER NOT NULL DEFAULT 0
) STRICT, WITHOUT ROWID;
CREATE INDEX picture_by_output ON picture (output);

-- One row: what the service that has the lock said last about itself, as JSON.
CREATE TABLE daemon (
    id    INTEGER PRIMARY KEY CHECK (id = 1),
    pid   INTEGER NOT NULL,
    said  INTEGER NOT NULL,
    state TEXT    NOT NULL
) STRICT;

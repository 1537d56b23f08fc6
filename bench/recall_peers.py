"""Two peers with the texts, vectors and queries that `remem-bench recall --peers PYTHON` hands over: LanceDB (full text and IVF-PQ,
its own hybrid query) and SQLite with FTS5 and sqlite-vec (a scan, fused by reciprocal rank). Prints the same figures as the benchmark.

Needs: pip install lancedb sqlite-vec apsw numpy pyarrow
"""
import os, shutil, sys, time
import apsw, numpy as np

folder, wide = sys.argv[1], 384
texts = open(os.path.join(folder, "texts.txt"), encoding="utf-8").read().splitlines()
vectors = np.fromfile(os.path.join(folder, "vectors.f32"), dtype="<f4").reshape(-1, wide)
queries = open(os.path.join(folder, "queries.txt"), encoding="utf-8").read().splitlines()
asked = np.fromfile(os.path.join(folder, "queries.f32"), dtype="<f4").reshape(-1, wide)
unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
asked_unit = asked / np.linalg.norm(asked, axis=1, keepdims=True)
many = len(texts) > 200_000


def nearest(n):
    return set(np.argpartition(-(unit @ asked_unit[n]), 10)[:10].tolist())


def size(path):
    return sum(os.path.getsize(os.path.join(d, f)) for d, _, fs in os.walk(path) for f in fs)


def report(name, filled, indexed, search, near, path, count):
    times = []
    for n in range(count):
        begun = time.perf_counter()
        search(n)
        times.append(time.perf_counter() - begun)
    found = sum(len(nearest(n) & near(n)) for n in range(min(count, 50))) / (10 * min(count, 50))
    p = np.percentile(np.array(times) * 1000, [50, 95, 99])
    print(f"| {name} | {len(texts) / filled:.0f} | {indexed:.1f} | {p[0]:.1f} / {p[1]:.1f} / {p[2]:.1f} | {found:.3f} | {size(path) / len(texts):.0f} |", flush=True)


print("\n| peer | entries a second | index, s | hybrid p50 / p95 / p99, ms | recall@10 | bytes on disk an entry |")
print("|---|---:|---:|---:|---:|---:|", flush=True)

import sqlite_vec

path = os.path.join(folder, "peer-sqlite")
os.makedirs(path)
db = apsw.Connection(os.path.join(path, "peer.db"))
db.enable_load_extension(True)
db.load_extension(sqlite_vec.loadable_path())
db.execute("PRAGMA journal_mode = wal")
db.execute("CREATE VIRTUAL TABLE words USING fts5 (content, tokenize = 'porter unicode61 remove_diacritics 2')")
db.execute(f"CREATE VIRTUAL TABLE near USING vec0 (direction float[{wide}] distance_metric=cosine)")
begun = time.perf_counter()
for first in range(0, len(texts), 1000):
    part = range(first, min(first + 1000, len(texts)))
    with db:
        db.executemany("INSERT INTO words (rowid, content) VALUES (?, ?)", [(n, texts[n]) for n in part])
        db.executemany("INSERT INTO near (rowid, direction) VALUES (?, ?)", [(n, vectors[n].tobytes()) for n in part])
filled = time.perf_counter() - begun


def sqlite_near(n):
    rows = db.execute("SELECT rowid FROM near WHERE direction MATCH ? AND k = ? ORDER BY distance", (asked[n].tobytes(), 10))
    return {row[0] for row in rows}


def sqlite_search(n):
    expression = " OR ".join(f'"{word}"' for word in dict.fromkeys(queries[n].split()))
    by_words = [r[0] for r in db.execute("SELECT rowid FROM words WHERE words MATCH ? ORDER BY rank LIMIT 200", (expression,))]
    by_near = [r[0] for r in db.execute("SELECT rowid FROM near WHERE direction MATCH ? AND k = 200 ORDER BY distance", (asked[n].tobytes(),))]
    score = {}
    for rows in (by_words, by_near):
        for place, row in enumerate(rows):
            score[row] = score.get(row, 0) + 1 / (60 + place)
    best = sorted(score, key=score.get, reverse=True)[:10]
    return db.execute(f"SELECT rowid, content FROM words WHERE rowid IN ({','.join(map(str, best))})").fetchall()


report("SQLite FTS5 + sqlite-vec, RRF", filled, 0, sqlite_search, sqlite_near, path, 40 if many else 300)
db.close()
shutil.rmtree(path)

import lancedb, pyarrow as pa

path = os.path.join(folder, "peer-lance")
place = lancedb.connect(path)
kind = pa.schema([("id", pa.int64()), ("text", pa.string()), ("vector", pa.list_(pa.float32(), wide))])
table = place.create_table("t", schema=kind)
begun = time.perf_counter()
for first in range(0, len(texts), 10_000):
    last = min(first + 10_000, len(texts))
    flat = pa.array(vectors[first:last].reshape(-1), type=pa.float32())
    table.add(pa.table([pa.array(range(first, last)), pa.array(texts[first:last]), pa.FixedSizeListArray.from_arrays(flat, wide)], schema=kind))
filled = time.perf_counter() - begun
begun = time.perf_counter()
table.create_fts_index("text", use_tantivy=False, replace=True)
if len(texts) >= 50_000:
    table.create_index(metric="cosine", vector_column_name="vector", num_sub_vectors=96)
indexed = time.perf_counter() - begun


def as_wide(query):
    """The same width for both, so that the recall is that of the searches whose time is taken."""
    return query.nprobes(30).refine_factor(20) if len(texts) >= 50_000 else query


def lance_near(n):
    query = as_wide(table.search(asked[n]).distance_type("cosine"))
    return {row["id"] for row in query.limit(10).select(["id"]).to_list()}


def lance_search(n):
    query = as_wide(table.search(query_type="hybrid").vector(asked[n]).text(queries[n]).distance_type("cosine"))
    return query.limit(10).to_list()


report("LanceDB hybrid", filled, indexed, lance_search, lance_near, path, 100 if many else 300)
shutil.rmtree(path)

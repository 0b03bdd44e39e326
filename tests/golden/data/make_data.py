#!/usr/bin/env python3
"""Writes the small files that the readers' tests read, by the libraries that such files usually come from.

    python3 tests/golden/data/make_data.py numpy tensorflow parquet

Each word writes the files of one library (numpy 2.4, TensorFlow 2.21, pyarrow 26.0). The content is
always the same six examples. Example i has the numbers 10 * i + 0 … 10 * i + 5 in a shape of [2,
3], and the label i % 3.
"""
import pathlib
import sys

FOLDER = pathlib.Path(__file__).resolve().parent
EXAMPLES = 6
PIXELS = [[10 * i + j for j in range(6)] for i in range(EXAMPLES)]
LABELS = [i % 3 for i in range(EXAMPLES)]


def write_numpy():
    import numpy

    x = numpy.array(PIXELS).reshape(EXAMPLES, 2, 3)
    y = numpy.array(LABELS)
    for dtype in ("uint8", "int32", "int64", "float32", "float64"):
        numpy.save(FOLDER / f"x_{dtype}.npy", x.astype(dtype))
    numpy.save(FOLDER / "y_int64.npy", y.astype("int64"))
    numpy.save(FOLDER / "y_uint8.npy", y.astype("uint8"))
    numpy.save(FOLDER / "targets.npy", (x[:, 0, :2] / 2).astype("float32"))
    numpy.save(FOLDER / "x_fortran.npy", numpy.asfortranarray(x.astype("float32")))
    numpy.save(FOLDER / "x_big_endian.npy", x.astype(">f4"))
    with open(FOLDER / "x_version2.npy", "wb") as file:
        numpy.lib.format.write_array(file, x.astype("float32"), version=(2, 0))
    numpy.savez(FOLDER / "stored.npz", x_train=x.astype("uint8"), y_train=y)
    numpy.savez_compressed(FOLDER / "packed.npz", x_train=x.astype("uint8"), y_train=y)


def write_tensorflow():
    import tensorflow as tf

    def feature(kind, values):
        return tf.train.Feature(**{f"{kind}_list": {"bytes": tf.train.BytesList, "float": tf.train.FloatList, "int64": tf.train.Int64List}[kind](value=values)})

    def write(name, image, options=None, rows=range(EXAMPLES), names=("image_raw", "label")):
        with tf.io.TFRecordWriter(str(FOLDER / name), options) as writer:
            for i in rows:
                features = {names[0]: image(PIXELS[i]), names[1]: feature("int64", [LABELS[i]]), "height": feature("int64", [2])}
                writer.write(tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString())

    raw = lambda pixels: feature("bytes", [bytes(pixels)])
    write("bytes.tfrecord", raw)
    write("bytes.tfrecord.gz", raw, options="GZIP")
    write("floats.tfrecord", lambda pixels: feature("float", pixels))
    write("int64.tfrecord", lambda pixels: feature("int64", pixels))
    write("named.tfrecord", raw, names=("pixels", "class"))
    write("part0.tfrecord", raw, rows=range(4))
    write("part1.tfrecord", raw, rows=range(4, 6))
    png = tf.io.encode_png(tf.zeros([2, 3, 1], tf.uint8)).numpy()
    write("png.tfrecord", lambda pixels: feature("bytes", [png]), rows=range(1))


def write_parquet():
    import pyarrow as pa
    import pyarrow.parquet as pq

    labels = pa.array(LABELS, pa.int64())

    def write(name, image, label=labels, **options):
        pq.write_table(pa.table({"image": image, "label": label}), FOLDER / name, **options)

    write("binary.parquet", pa.array([bytes(row) for row in PIXELS], pa.binary()))
    write("fixed_binary.parquet", pa.array([bytes(row) for row in PIXELS], pa.binary(6)), pa.array(LABELS, pa.int32()))
    write("list_float.parquet", pa.array(PIXELS, pa.list_(pa.float32())), row_group_size=4)
    write("list_uint8.parquet", pa.array(PIXELS, pa.list_(pa.uint8())), pa.array(LABELS, pa.uint8()), compression="zstd")
    write("fixed_list_double.parquet", pa.array(PIXELS, pa.list_(pa.float64(), 6)), compression="gzip")
    write("with_null.parquet", pa.array([bytes(PIXELS[0]), None], pa.binary()), pa.array(LABELS[:2], pa.int64()))
    write("strings.parquet", pa.array([str(row) for row in PIXELS], pa.string()))


if __name__ == "__main__":
    for word in sys.argv[1:]:
        {"numpy": write_numpy, "tensorflow": write_tensorflow, "parquet": write_parquet}[word]()

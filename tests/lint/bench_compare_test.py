"""scripts/bench_compare.py must see a change beyond the noise, and none within it."""

import contextlib
import io
import json
import os
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "..", "scripts"))
import bench_compare  # noqa: E402


class BenchCompareTest(unittest.TestCase):
    def status(self, old, new):
        with tempfile.TemporaryDirectory() as folder:
            paths = []
            for name, benches in (("old", old), ("new", new)):
                paths.append(os.path.join(folder, name))
                runs = [{"name": bench, "run_name": bench, "run_type": "iteration", "real_time": value,
                         "time_unit": "us"} for bench, values in benches.items() for value in values]
                runs.append({"name": "x_mean", "run_name": "x", "run_type": "aggregate", "real_time": 1})
                with open(paths[-1], "w", encoding="utf-8") as file:
                    json.dump({"benchmarks": runs}, file)
            with contextlib.redirect_stdout(io.StringIO()) as out:
                status = bench_compare.main(paths)
            return status, out.getvalue()

    def test_noise_is_no_change(self):
        self.assertEqual(self.status({"a": [100, 110, 105, 101, 108]}, {"a": [104, 111, 109, 103, 112]})[0], 0)

    def test_a_slower_bench_fails(self):
        status, out = self.status({"a": [100, 101, 102, 101, 130]}, {"a": [120, 121, 122, 121, 123]})
        self.assertEqual(status, 1)
        self.assertIn("SLOWER", out)

    def test_a_faster_bench_is_said(self):
        status, out = self.status({"a": [120, 121, 122]}, {"a": [100, 101, 102]})
        self.assertEqual(status, 0)
        self.assertIn("faster", out)

    def test_a_bench_that_is_gone_fails(self):
        self.assertEqual(self.status({"a": [1], "b": [1]}, {"a": [1]})[0], 1)


if __name__ == "__main__":
    unittest.main()

"""The shared helpers of the Python tests must themselves wait, clean and measure."""

import os
import subprocess
import sys
import unittest
from unittest import mock

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))

import testing  # noqa: E402


def peak_of(code):
    process = subprocess.Popen([sys.executable, "-c", code])
    with testing.Watch(process) as watched:
        status = watched.wait()
    return status, watched.peak_bytes // testing.MIB


class TestingTest(unittest.TestCase):
    def test_settings_of_the_machine_are_removed(self):
        machine = ["http_proxy", "HTTPS_PROXY", "All_Proxy", "HF_TOKEN", "HF_HUB_OFFLINE", "HUGGING_FACE_HUB_TOKEN", "SSL_CERT_DIR",
                   "CURL_CA_BUNDLE", "REQUESTS_CA_BUNDLE", "COLUMNS", "LINES", "BASH_ENV", "MANPAGER", "MAN_POSIXLY_CORRECT",
                   "GREP_COLORS", "POSIXLY_CORRECT", "NO_COLOR", "HFSHARD_MAPPINGS"]
        kept = {"PATH": "/bin", "HFSHARD_PEER_PYTHON": "python", "HOME": "/root", "TMPDIR": "/tmp", "SANITIZED": "thread"}
        with mock.patch.dict(os.environ, {**kept, **dict.fromkeys(machine, "x"), "no_proxy": "example.com"}, clear=True):
            self.assertEqual(testing.clean(HF_HOME="h"), {**kept, "no_proxy": "*", "NO_PROXY": "*", "HF_HOME": "h"})
            testing.clean_own()
            self.assertEqual(dict(os.environ), {**kept, "no_proxy": "*", "NO_PROXY": "*"})

    def test_waiting_ends_with_the_condition_or_says_what_it_waited_for(self):
        values = iter([0, "", 7])
        self.assertEqual(testing.wait_until(lambda: next(values), "a value"), 7)
        with self.assertRaisesRegex(TimeoutError, "the impossible"):
            testing.wait_until(lambda: False, "the impossible", seconds=0.05)
        with subprocess.Popen(["true"]) as process:
            self.assertFalse(testing.wait_for(process, lambda: False, "the impossible"))

    def test_a_start_that_fails_is_tried_again_with_another_port(self):
        ports = []
        self.assertTrue(testing.with_port(lambda port: ports.append(port) or len(ports) == 2))
        self.assertEqual(len(ports), 2)
        self.assertFalse(testing.with_port(lambda port: ports.append(port), attempts=2))
        self.assertEqual(len(ports), 4)

    def test_a_peak_is_the_childs_own(self):
        large = bytearray(300 * testing.MIB)  # ru_maxrss of a child begins there
        self.assertEqual(large[-1], 0)
        status, small = peak_of("import time; time.sleep(0.1)")
        self.assertEqual(status, 0)
        self.assertTrue(0 < small < 150, small)
        status, larger = peak_of("import os; x = bytearray(500 << 20); os._exit(3)")
        self.assertEqual(status, 3)
        self.assertTrue(500 <= larger < 700, larger)


if __name__ == "__main__":
    unittest.main()

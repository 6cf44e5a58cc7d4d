"""What a proxy and its snapshot writer say to each other arrives as it was said."""

import json

import pytest

from proxy.log.upkeep.snapshot_job import Answer, DigestAnswer, Failed, Job, Written, answer_of, job_of
from schema.record import SnapshotRef

_REF = SnapshotRef("1-a", 100, "a", 1, 1, 1000, 10, 1, 5, 1 << 63)


@pytest.mark.parametrize("job", [Job("/t", "a", 7, 1e6), Job("/t", digest_after=0)])
def test_jobs(job: Job) -> None:
    """The line has other members too."""
    assert job_of(json.loads(json.dumps({"etcd": [], **job.as_json()}))) == job


@pytest.mark.parametrize(
    "answer",
    [
        Written(_REF, 1, 2, 3, 4, 5, 6.5),
        Written(None, 0, 0, 0, 0, 0, 0.1),
        DigestAnswer(1 << 63),
        Failed("why"),
        Failed("why", is_overtaken=True),
        Failed("why", is_gone=True),
    ],
)
def test_answers(answer: Answer) -> None:
    assert answer_of(json.loads(json.dumps(answer.as_json()))) == answer

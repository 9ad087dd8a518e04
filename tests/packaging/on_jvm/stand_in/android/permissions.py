"""Answers permission requests as `answers` says, no by default."""

answers: dict[str, bool] = {}
requests: list[list[str]] = []


def request_permissions(permissions, callback):
    requests.append(permissions)
    callback(permissions, [answers.get(name, False) for name in permissions])

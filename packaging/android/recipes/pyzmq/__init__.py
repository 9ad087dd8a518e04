"""ZeroMQ for Android: the project's own wheel instead of python-for-android's recipe, which builds pyzmq 20."""

from pythonforandroid.recipe import PyProjectRecipe


class PyZMQRecipe(PyProjectRecipe):
    name = "pyzmq"
    version = "27.3.0"  # has android_24_arm64_v8a wheels for Python 3.13 and later, aligned to 16 KB pages
    url = None  # nothing to build: the wheel is the package
    depends: list[str] = []  # noqa: RUF012 - python-for-android's way of declaring them
    site_packages_name = "zmq"


recipe = PyZMQRecipe()

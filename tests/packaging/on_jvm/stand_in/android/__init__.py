"""In the place of python-for-android's own module, which only a phone has."""


class config:  # noqa: N801 - its name there
    JAVA_NAMESPACE = "org.kivy.android"

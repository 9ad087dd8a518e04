"""In the place of python-for-android's own module, which only a phone has."""


class config:
    JAVA_NAMESPACE = "org.kivy.android"

"""`resurge app build`: the Android app with a program's own operators in it.

own_modules   which modules register the program's operators, and what they import
android       what can be had for a phone: its standard library, recipes of python-for-android, wheels
staging       a folder from which buildozer, here or in a workflow, makes the app
"""

"""cryptography, linked against Python's library.

python-for-android 2026.05.09 builds Rust extensions without it, and Android then refuses to load them ("cannot locate
symbol PyExc_MemoryError", kivy/python-for-android#3329, repaired after that release).
"""

from typing import Any

from pythonforandroid.recipes.cryptography import CryptographyRecipe


class LinkedCryptographyRecipe(CryptographyRecipe):
    def get_recipe_env(self, arch: Any, **options: Any) -> dict[str, str]:
        environment: dict[str, str] = super().get_recipe_env(arch, **options)
        environment["RUSTFLAGS"] += f" -Clink-arg=-lpython{self.ctx.python_recipe.link_version}"
        return environment


recipe = LinkedCryptographyRecipe()

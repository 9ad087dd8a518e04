"""The pages, in the order of the bar. Kivy is imported in this folder and in app.py, and nowhere else."""

from mobile_app.screens.buffer import BufferPage
from mobile_app.screens.flow import FlowPage
from mobile_app.screens.live import LivePage
from mobile_app.screens.record import RecordPage
from mobile_app.screens.results import ResultsPage
from mobile_app.screens.setup import SetupPage

PAGES = (RecordPage, LivePage, FlowPage, BufferPage, ResultsPage, SetupPage)

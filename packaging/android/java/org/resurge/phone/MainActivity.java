package org.resurge.phone;

import android.os.Build;
import android.os.Bundle;
import android.util.Log;
import android.view.KeyEvent;
import android.view.View;
import android.view.WindowInsetsController;
import android.window.OnBackInvokedDispatcher;
import java.io.IOException;
import java.nio.channels.OverlappingFileLockException;
import org.kivy.android.PythonActivity;

/** python-for-android's activity, with the way back of Android 13 and later, one unpacking at a time, and its bars. */
public class MainActivity extends PythonActivity {
    private static final int LIGHT_BARS =
            WindowInsetsController.APPEARANCE_LIGHT_STATUS_BARS
                    | WindowInsetsController.APPEARANCE_LIGHT_NAVIGATION_BARS;

    private Unpacking.Turn turn = null;

    @Override
    protected void onCreate(Bundle state) {
        if (Unpacking.stale(this)) {
            // Its files are about to be replaced. What it has taken is durable; the app starts it again.
            stopService(ServiceIntent.of(this, "", "", ""));
        }
        try {
            turn = Unpacking.turn(this); // until PythonActivity has unpacked
        } catch (IOException | OverlappingFileLockException failed) { // the second: made anew before it was ready
            Log.w("resurge", "unpacking without a lock: " + failed);
        }
        super.onCreate(state);
        if (Build.VERSION.SDK_INT >= 33) {
            // SDL waits for the key of the back button, which an app that targets Android 16 is not sent any more.
            getOnBackInvokedDispatcher()
                    .registerOnBackInvokedCallback(OnBackInvokedDispatcher.PRIORITY_DEFAULT, this::back);
        }
    }

    @Override
    protected void finishLoad() {
        if (turn != null) {
            turn.close();
            turn = null;
        }
        super.finishLoad();
    }

    private void back() {
        onNativeKeyDown(KeyEvent.KEYCODE_BACK);
        onNativeKeyUp(KeyEvent.KEYCODE_BACK);
    }

    /** Dark icons in the bars when what lies under them is light. From any thread. */
    public void showBars(boolean lightPage) {
        if (Build.VERSION.SDK_INT < 30) {
            return;
        }
        runOnUiThread(
                () -> {
                    WindowInsetsController bars = getWindow().getInsetsController();
                    if (bars != null) {
                        bars.setSystemBarsAppearance(lightPage ? LIGHT_BARS : 0, LIGHT_BARS);
                    }
                });
    }

    /** Left, top, right and bottom of what we draw on, in the window: older phones keep it clear of the bars already. */
    public int[] surfaceBounds() {
        View surface = getSurface();
        if (surface == null) {
            return new int[] {0, 0, 0, 0};
        }
        int[] at = new int[2];
        surface.getLocationInWindow(at);
        return new int[] {at[0], at[1], at[0] + surface.getWidth(), at[1] + surface.getHeight()};
    }
}
